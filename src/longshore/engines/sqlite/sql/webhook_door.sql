-- webhook_door: who is at an endpoint, and how it went.
-- :id
select door from longshore_webhook where id = :id
