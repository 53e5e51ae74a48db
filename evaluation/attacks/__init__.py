"""Attacks on privacy: one small file per family, all metrics of family ``privacy`` (`evaluation.base.METRICS`).

Terms of the European guidance (Article 29 Working Party, Opinion 05/2014, WP216), as anonymeter measures them
(Giomi et al., PoPETs 2023):

* singling out, users: `tokens` (engine), `gaps` (submit gaps), `requests` (sizes, limits, run times), `working`
  (sessions);
* singling out, jobs: `copying`, `isolation`, `distance`;
* linkability, users: `profiles` (nearest profile), `named` (under the same label), `linking` (two halves of one user);
* inference: `linking` (users), `isolation` (jobs);
* membership, jobs: `membership` (nearer to fitted jobs, by distance, by a trained classifier).

`evaluation.exposure` decides which result is an alarm; docs/sharing.md says what each attacker is assumed to know.
"""
