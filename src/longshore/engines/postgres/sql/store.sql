-- store: what tells this store from all others.
select longshore.store()
