-- let_go: these claims have ended.
-- :token :seqs  JSON array
delete from longshore_held
 where token = :token and seq in (select value from json_each(:seqs))
