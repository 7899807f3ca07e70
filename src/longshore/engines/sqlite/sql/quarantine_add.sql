-- quarantine_add: set an event aside.
-- :consumer :event_id :name :job_id :reason :body :at
insert into longshore_quarantine (consumer, event_id, name, job_id, reason, body, at)
values (:consumer, :event_id, :name, :job_id, :reason, :body, :at)
