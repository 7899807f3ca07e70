-- next_due: when the next scheduled job is due, or the next line opens because of its rate.
select min(at)
  from (select min(run_at) as at from longshore_scheduled indexed by longshore_scheduled_due
        union all
        select min(opens_at) from longshore_line indexed by longshore_line_opens
         where opens_at is not null)
