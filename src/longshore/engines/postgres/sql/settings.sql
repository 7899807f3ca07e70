-- settings: all that is said of one kind. kind
select name, layer, settings from longshore.setting where kind = $1
