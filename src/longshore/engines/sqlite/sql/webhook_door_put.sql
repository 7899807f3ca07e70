-- webhook_door_put: say who is at an endpoint, and how it went.
-- :id :door
update longshore_webhook set door = :door where id = :id
