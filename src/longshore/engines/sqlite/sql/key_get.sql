-- key_get: one key, and its tenant's definition.
-- :id
select k.id, k.digest, k.tenant, k.scopes, k.label, k.created_at, k.expires_at, k.revoked_at,
       k.last_used_at, k.previous, k.previous_until, t.definition, t.created_at
  from longshore_key k left join longshore_tenant t on t.name = k.tenant where k.id = :id
