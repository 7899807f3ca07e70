-- Who of the fleet is delivering to an endpoint, and whether it rests. Code from before counts
-- its own deliveries only.
-- longshore: works-with 0021

alter table longshore.webhook add column door text not null default '{}';
