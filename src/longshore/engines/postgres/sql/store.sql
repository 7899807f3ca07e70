-- store: what tells this store, in this era, from all others.
select longshore.this_store()
