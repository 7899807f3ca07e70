-- losses_add: a worker vanished that held jobs. names of both totals, jobs
insert into longshore.total as t (name, number) values ($1, 1), ($2, $3)
    on conflict (name) do update set number = t.number + excluded.number
