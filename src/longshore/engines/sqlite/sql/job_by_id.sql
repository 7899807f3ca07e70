-- job_by_id: continues job_columns.
-- :id :tenant
 where j.id = :id and (:tenant is null or j.tenant = :tenant)
