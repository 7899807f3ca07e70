-- completed: whether a completion was committed. token, entry of the journal
select exists (select from longshore.journal where token = $1 and entry = $2)
