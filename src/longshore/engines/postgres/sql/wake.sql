-- wake: tell whoever waits for work to look.
select pg_notify('longshore', '')
