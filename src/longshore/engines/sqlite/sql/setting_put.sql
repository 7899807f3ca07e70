-- setting_put: replace a layer of what is said.
-- :kind :name :layer :settings
insert into longshore_setting (kind, name, layer, settings)
values (:kind, :name, :layer, :settings)
    on conflict (kind, name, layer) do update set settings = excluded.settings
