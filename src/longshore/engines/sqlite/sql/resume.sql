-- resume: undo one pause.
-- :queue :type
delete from longshore_pause where queue = :queue and type = :type
