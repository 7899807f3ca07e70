-- pause: stop handing out. queue, type
insert into longshore.pause (queue, type) values ($1, $2) on conflict do nothing
