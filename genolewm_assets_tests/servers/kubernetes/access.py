"""Who may do what: bearer tokens of service accounts, and the rules of Roles bound to them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Access:
    """Tokens and rules of one namespace.

    Attributes
    ----------
    tokens
        Token of each service account.
    rules
        Rules of each service account, as in the API.
    """

    namespace: str
    tokens: Mapping[str, str]
    rules: Mapping[str, tuple[Mapping[str, Any], ...]] = field(repr=False)

    @classmethod
    def of_manifests(cls, namespace: str, manifests: Iterable[Mapping[str, Any]]) -> Access:
        """Return the access that ServiceAccounts, Roles and RoleBindings among manifests grant."""
        found = list(manifests)
        accounts = [each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"]
        roles = {each["metadata"]["name"]: each["rules"] for each in found if each["kind"] == "Role"}
        rules: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for binding in (each for each in found if each["kind"] == "RoleBinding"):
            assert binding["roleRef"]["kind"] == "Role"
            for subject in binding["subjects"]:
                assert subject["kind"] == "ServiceAccount"
                granted = roles[binding["roleRef"]["name"]]
                rules[subject["name"]] = (*rules.get(subject["name"], ()), *granted)
        return cls(namespace, {name: secrets.token_hex(32) for name in accounts}, rules)

    def account_of(self, header: str | None) -> str | None:
        """Return the service account that an ``Authorization`` header proves; None if it proves none."""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return next((name for name, own in self.tokens.items() if secrets.compare_digest(own, token.strip())), None)

    def allows(self, account: str, verb: str, group: str, resource: str) -> bool:
        """Tell whether a rule of an account names verb and resource, such as ``get`` of ``pods/log``."""
        return any(
            verb in rule["verbs"] and group in rule["apiGroups"] and resource in rule["resources"]
            for rule in self.rules.get(account, ())
        )
