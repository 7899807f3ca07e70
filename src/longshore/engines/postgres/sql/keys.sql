-- keys: the keys of one tenant, or of all and the operators. tenant
select id, digest, tenant, scopes, label, created_at, expires_at, revoked_at, last_used_at,
       previous, previous_until
  from longshore.key where $1::text is null or tenant = $1 order by created_at, id
