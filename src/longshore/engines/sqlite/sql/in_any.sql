-- in_any: continues job_columns; jobs in whatever state.
 where true
