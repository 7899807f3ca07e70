-- session_exchanged: remember the number of the exchange, and what it refused.
-- :token :number :refused
update longshore_session set exchange = :number, refused = :refused where token = :token
