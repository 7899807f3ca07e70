-- key_put: store a key, or what changes of it.
-- :id :digest :tenant :scopes :label :created_at :expires_at :revoked_at :previous
-- :previous_until
insert into longshore_key (id, digest, tenant, scopes, label, created_at, expires_at,
                           revoked_at, previous, previous_until)
values (:id, :digest, :tenant, :scopes, :label, :created_at, :expires_at, :revoked_at,
        :previous, :previous_until)
    on conflict (id) do update
   set digest = excluded.digest, revoked_at = excluded.revoked_at,
       previous = excluded.previous, previous_until = excluded.previous_until
