-- longshore: works-with 0011
-- Who of the fleet is delivering to an endpoint, and whether it rests. Code from before counts
-- its own deliveries only.

alter table longshore_webhook add column door text not null default '{}';
