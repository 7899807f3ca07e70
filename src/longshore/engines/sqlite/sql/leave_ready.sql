-- leave_ready: these jobs are no longer ready. Harmless for others.
-- :seqs  JSON array
delete from longshore_ready where (queue, type, rank, seq) in (
    select queue, type, rank, seq from longshore_job
     where seq in (select value from json_each(:seqs)))
