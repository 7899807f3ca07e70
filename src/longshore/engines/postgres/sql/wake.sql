-- wake: tell whoever waits for work, or holds what is to be cancelled, to look.
select pg_notify('longshore', '')
