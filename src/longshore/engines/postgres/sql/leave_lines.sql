-- leave_lines: jobs that were inside their lines have ended. JSON array, clock
select longshore.leave_lines($1::text::jsonb, longshore.clock($2))
