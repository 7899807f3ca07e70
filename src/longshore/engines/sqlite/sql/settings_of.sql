-- settings_of: the layers of one name.
-- :kind :name
select layer, settings from longshore_setting where kind = :kind and name = :name
