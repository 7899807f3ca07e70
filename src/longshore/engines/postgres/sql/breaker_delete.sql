-- breaker_delete: nothing holds for a type any more. type
delete from longshore.breaker where type = $1
