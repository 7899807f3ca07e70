-- setting_delete: say nothing any more in a layer. kind, name, layer
delete from longshore.setting where kind = $1 and name = $2 and layer = $3
