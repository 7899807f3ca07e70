-- in_finished: continues job_columns; jobs that are dead or cancelled, of which there may be
-- few among millions.
-- :state
-- reads longshore_finished_age.
 where j.seq in (select seq from longshore_finished indexed by longshore_finished_age
                  where state = :state)
