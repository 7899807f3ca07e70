-- claim_ready: what was claimed is no longer ready.
-- :queue :types  JSON array, :rank :seq  of the last one
delete from longshore_ready
 where queue = :queue and type in (select value from json_each(:types))
   and (rank, seq) <= (:rank, :seq)
