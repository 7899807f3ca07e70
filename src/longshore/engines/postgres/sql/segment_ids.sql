-- segment_ids: the ids of a segment's jobs, from one ordinal up to and without another.
-- segment, lo, hi
select substring(s.ids from $2::smallint * 16 + 1 for ($3::smallint - $2::smallint) * 16) as ids
  from longshore.segment s where s.segment = $1
