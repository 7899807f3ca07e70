-- type_heads: the first job of each of these types in a queue, as [rank, seq, type].
-- :queue :types  JSON array
-- One seek per type in longshore_ready.
select json_group_array(json(head))
  from (select (select json_array(rank, seq, type) from longshore_ready
                 where queue = :queue and type = wanted.value
                 order by rank, seq
                 limit 1) as head
          from json_each(:types) wanted)
 where head is not null
