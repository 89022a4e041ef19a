-- Whose page a session of a browser is: 'owner', or the id of another token; null for a token that is no such session.

alter table token add column page_of text;
