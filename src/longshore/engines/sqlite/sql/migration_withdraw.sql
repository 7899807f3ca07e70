-- migration_withdraw: let everyone work again: what was announced does not come.
delete from longshore_migration where applied_at is null
