-- depths: where no more than so many jobs may wait, how many do.
select d.queue, d.tenant, d.most, d.jobs from longshore.depths() d
