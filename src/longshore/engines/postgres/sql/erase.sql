-- erase: overwrite what a segment has of a job. segment, ordinal
update longshore.segment s
   set payloads = overlay(s.payloads placing
           convert_to(repeat(' ', s.bounds[$2 + 2] - s.bounds[$2 + 1]), 'UTF8')
           from s.bounds[$2 + 1] + 1),
       keys = s.keys - $2::integer::text, attributes = s.attributes - $2::integer::text
 where s.segment = $1
