-- session_owner: whom a session was opened for, as long as there is one. token
select s.owner from longshore.session s where s.token = $1
