-- settings_of: the layers of one name. kind, name
select layer, settings from longshore.setting where kind = $1 and name = $2
