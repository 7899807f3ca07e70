-- setting_delete: say nothing any more in a layer.
-- :kind :name :layer
delete from longshore_setting where kind = :kind and name = :name and layer = :layer
