-- migration_withdraw: let everyone work again: what was announced does not come. number
delete from longshore.migration where number = $1 and applied_at is null
