-- call_holders: tell sessions that a job of theirs is to be cancelled. tokens
select pg_notify('longshore', token::text) from unnest($1::bigint[]) as t (token) group by token
