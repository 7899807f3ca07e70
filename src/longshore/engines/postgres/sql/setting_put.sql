-- setting_put: replace a layer of what is said. kind, name, layer, settings
insert into longshore.setting (kind, name, layer, settings) values ($1, $2, $3, $4)
    on conflict (kind, name, layer) do update set settings = excluded.settings
