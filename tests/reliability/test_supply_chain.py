"""What is installed is what was locked, and what is locked is what is required and allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import licenses

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements/dev.txt", "requirements/audit.txt")
PYTHONS = ("3.11", "3.12", "3.13")


def entries(name):
    """Return the requirement and the hashes of each entry of a lock."""
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = []
    for block in lines.replace("\\\n", " ").splitlines():
        requirement, *hashes = block.split(" --hash=")
        found.append((Requirement(requirement), [each.strip() for each in hashes]))
    return found


def locked(name, python):
    """Return the locked version of each package for Linux and a version of Python."""
    environment = default_environment() | {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    versions = {}
    for requirement, _ in entries(name):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            key = canonicalize_name(requirement.name)
            assert key not in versions, f"{key} is locked twice for Python {python}"
            versions[key] = str(requirement.specifier).removeprefix("==")
    return versions


def lines_of(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def missing(requirements, versions):
    """Return the requirements that locked versions do not meet."""
    found = []
    for each in map(Requirement, requirements):
        version = versions.get(canonicalize_name(each.name))
        is_met = version is not None and each.specifier.contains(version)
        if not is_met and each.name != PYPROJECT["project"]["name"]:
            found.append(str(each))
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_meets_all_requirements(python):
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *PYPROJECT["build-system"]["requires"]]
    wanted += [line for extra in project["optional-dependencies"].values() for line in extra]
    wanted += lines_of("constraints.txt")
    assert not missing(wanted, locked("requirements/dev.txt", python)), "run: make lock"
    tools = lines_of("requirements/audit.in")
    assert not missing(tools, locked("requirements/audit.txt", python)), "run: make lock"


def test_a_missing_or_old_package_is_noticed():
    versions = locked("requirements/dev.txt", "3.11")
    assert missing(["numpy>=999", "no-such-package", "numpy"], versions) == [
        "numpy>=999",
        "no-such-package",
    ]


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_pinned_by_hash(name):
    found = entries(name)
    assert len(found) > 20
    for requirement, hashes in found:
        # No local version (as in 2.0+cpu), which other indexes do not have.
        assert re.fullmatch(r"==[0-9a-z.]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host_and_no_folder(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert set(re.findall(r"^\s*(-[a-z-]+)", text, re.MULTILINE)) == {"--hash"}


def test_actions_are_pinned_by_commit_and_may_only_read():
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        text = path.read_text(encoding="utf-8")
        uses = re.findall(r"uses: *(.+)", text)
        assert uses
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", each) for each in uses), uses
        assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
        assert "write" not in text


def test_the_workflow_tests_every_supported_python():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    classifiers = PYPROJECT["project"]["classifiers"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    assert re.search(r"python: \[(.+)\]", text)[1] == ", ".join(f'"{each}"' for each in supported)
    assert tuple(supported) == PYTHONS
    for command in (".ci/run", "locked", "audit sbom", "hatchling build"):
        assert command in text


def test_a_workflow_runs_the_slow_tests_every_week():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "slow.yml").read_text())
    (schedule,) = workflow[True]["schedule"]  # YAML 1.1 reads `on` as true
    *_, weekday = schedule["cron"].split()
    assert weekday in set("0123456")
    assert any("slow" in step.get("run", "").split() for step in workflow["jobs"]["slow"]["steps"])
    commands = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^slow:.*\n\t.*pytest -q -m slow", commands, re.MULTILINE)


def test_licenses_are_checked():
    page = licenses.PAGE.read_text(encoding="utf-8")
    direct = licenses.runtime_requirements()
    assert not licenses.problems(licenses.listed(page), direct, page)
    refused = licenses.problems({"new": "AGPL-3.0-only", "odd": "unknown"}, [], page)
    assert refused == [
        "not an allowed license: new: AGPL-3.0-only",
        "not an allowed license: odd: unknown",
    ]
    (unlisted,) = licenses.problems({}, [Requirement("no-such-package>=1")], page)
    assert "does not list no-such-package" in unlisted


def test_the_licenses_of_installed_packages_are_found():
    found = licenses.installed_packages([Requirement("typer"), Requirement("torch")])
    assert {"typer", "torch", "rich", "networkx"} <= set(found)
    assert not [name for name, text in found.items() if not licenses.is_allowed(text)]
