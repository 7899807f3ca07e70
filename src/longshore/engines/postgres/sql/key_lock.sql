-- key_lock: one key, which stays as it is until the transaction ends. id
select id, digest, tenant, scopes, label, created_at, expires_at, revoked_at, last_used_at,
       previous, previous_until
  from longshore.key where id = $1 for no key update
