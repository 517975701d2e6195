"""Files of the server are called by their names."""

from tests.web_suite import settings_in, site_in
from webapp.names import Names

POOL = """
name: mine
agents:
  - {name: sympy, kind: sympy}
"""


def test_a_pool_file_is_shown_by_the_pools_own_name(tmp_path):
    file = tmp_path / "folder" / "some-file.yaml"
    file.parent.mkdir()
    file.write_text(POOL)
    site = site_in(tmp_path, pool=str(file), checkpoint=str(tmp_path / "head.safetensors"))
    assert site.pools()[0] == "mine" and site.heads()[0] == ("head", "head")
    assert not any(str(tmp_path) in name for name in [*site.pools(), *(n for pair in site.heads() for n in pair)])
    assert site.offered("mine", "head") == ("", "") and site.offered(str(file), "x") == ("", "")
    assert site.names.told(f"Pool file {file} cannot be read") == "Pool file mine cannot be read"


def test_strangers_see_no_folder_of_this_machine(tmp_path):
    names = Names.of(settings_in(tmp_path), public=True)
    assert names.told("The file /home/me/data/x.sqlite3 is locked.") == "The file x.sqlite3 is locked."
    assert names.told("(sqlite:////srv/data/t.db) and https://a.example/b/c 1/2") == (
        "(sqlite:t.db) and https://a.example/b/c 1/2"
    )
    mine = Names.of(settings_in(tmp_path), public=False)
    assert mine.told("The file /home/me/data/x.sqlite3 is locked.").count("/home/me") == 1


def test_a_broken_team_is_told_by_name(tmp_path):
    import asyncio

    from core.errors import PoolInvalid
    from core.store import open_store
    from webapp.site import Site

    file = tmp_path / "broken.yaml"
    file.write_text("name: [")

    def loader(pool, checkpoint):
        raise PoolInvalid(f"Pool file {file} cannot be read")

    settings = settings_in(tmp_path, pool=str(file))
    site = Site.of(settings, open_store(settings.url), loader)
    state = asyncio.run(site.teams.settled())
    assert state.message == "Pool file broken cannot be read"
