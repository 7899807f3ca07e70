-- outbox_add: one row for all transitions of a transaction.
-- :at :body
insert into longshore_outbox (at, body) values (:at, :body)
