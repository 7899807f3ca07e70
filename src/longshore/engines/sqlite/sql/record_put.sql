-- record_put: store a record, or replace its body, as its next version. The first is the time.
-- :kind :name :tenant :body :now :due :keeps_due  whether the due time stays as it is
insert into longshore_record
       (kind, name, tenant, version, body, created_at, changed_at, due)
values (:kind, :name, :tenant, :now, :body, :now, :now, :due)
    on conflict (kind, name, tenant) do update
   set version = version + 1, body = excluded.body, changed_at = excluded.changed_at,
       due = case when :keeps_due then due else excluded.due end
