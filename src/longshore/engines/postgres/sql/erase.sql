-- erase: overwrite what a segment has of a job, but for the name of its line: it may have yet to
-- leave it, and jobs that are claimed together are asked for it through the first of them.
-- segment, ordinal
update longshore.segment s
   set payloads = overlay(s.payloads placing
           convert_to(repeat(' ', s.bounds[$2 + 2] - s.bounds[$2 + 1]), 'UTF8')
           from s.bounds[$2 + 1] + 1),
       keys = s.keys - $2::integer::text,
       attributes = case
           when s.attributes -> $2::integer::text ? 'line'
           then s.attributes || jsonb_build_object($2::integer::text, jsonb_build_object(
                    'line', s.attributes -> $2::integer::text -> 'line'))
           else s.attributes - $2::integer::text end
 where s.segment = $1
