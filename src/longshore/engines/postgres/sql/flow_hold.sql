-- flow_hold: let nobody claim from a queue with a limit until the transaction ends. queue
select pg_advisory_xact_lock(longshore.flow_key($1))
