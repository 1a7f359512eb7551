"""A person at the program: actions at random, and what the person saw last of everything."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace

from llm_lite.core.messages import (
    MODES,
    NO_CHANGES,
    EngineOptions,
    ExecutorInfo,
    FollowToken,
    Inspect,
    MeasureCache,
    ModelLoaded,
    ReadAttentionRows,
    ReadEffect,
    ReadRouting,
    ReadStates,
    SamplingOptions,
)
from llm_lite.core.messages.interventions import Interventions, Replace, Scale, Shift
from llm_lite.core.messages.remote import RemoteModel, RemoteServer
from llm_lite.core.records import replace
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.app.settings import SettingsStore, restore
from llm_lite.desktop.attention.text import MapText
from llm_lite.desktop.features.attachments import model as attaching
from llm_lite.desktop.features.attachments.model import Pasted
from llm_lite.desktop.features.attention import model as inspecting
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS, ask_pointed, is_held
from llm_lite.desktop.features.cache.model import ColorCache, SetOverflow
from llm_lite.desktop.features.chat import model as chatting
from llm_lite.desktop.features.chat.model import extras_of
from llm_lite.desktop.features.history import model as history
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.titles import SetTitles
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.lesson.model import RunSentence, ShowLesson
from llm_lite.desktop.features.presets.setting_values import RANGES
from llm_lite.desktop.features.program.model import (
    CancelLoading,
    OpenModel,
    SetFontSize,
    SetLanguage,
    SetOptions,
    SetSwitch,
    SetTheme,
)
from llm_lite.desktop.features.program.requests import conversation, reading_key
from llm_lite.desktop.features.program.scopes import fields_of
from llm_lite.desktop.features.program.settings import Looks, WindowPlace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.program.switches import SWITCHES
from llm_lite.desktop.features.remote.host import Router
from llm_lite.desktop.features.remote.model import Disconnect, ServerConnected
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.features.resume import model as resuming
from llm_lite.desktop.features.sampling.model import with_asked
from llm_lite.desktop.features.steer import model as steering
from llm_lite.desktop.features.tokens import model as looking
from llm_lite.desktop.features.tree import model as forking
from llm_lite.desktop.features.tree import model as switching
from tests.changes import scales
from tests.children import PATIENCE
from tests.desktop.engine.vocabulary import Vocabulary
from tests.desktop.other_versions import has_versions
from tests.desktop.person import checks
from tests.desktop.person.engine import END, NAMES, OTHER, SMALL, StampedEngine

SETTLED = 5000  # turns of the loop in which the engine must have done all it was asked
FAVOURED = 12  # times as often
MOST_TYPED = 2**31 - 1  # that a field for a whole number takes
NEW = 0  # key of the chat that has not begun
FAR = RemoteModel("far", 4096)
SERVER = RemoteServer("http://there", "there", "openai", "There", models=(FAR,))
ABLATED = scales(((0.0, 1.0, 1.0), (1.0, 1.0, 1.0)))
LOUD = scales(((1.0, 1.5, 1.0), (1.0, 1.0, 0.5)))
SHIFTED = Interventions((Shift(END, (0.5, -1.0)), Scale("layers.0.attention.heads", 0.0, 1)))
BY_ANOTHER_NAME = Interventions(
    (replace(SHIFTED.changes[0], site=next(iter(NAMES))), SHIFTED.changes[1])
)
REPLACED = Interventions((Replace(END, ((0.5, -1.0),), (0,)),))
LOOKS = Looks.__struct_fields__
BOUNDED = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens", "seed")


class StubMaps:
    """What the maps of a frame would show."""

    def __init__(self):
        self.text = MapText()

    def begin(self, source, busy, ids=None):
        if source is None:
            self.text = MapText()
        elif not self.text.is_current(source, ids):
            self.text.update(source, ids)


class Seen:
    """What a conversation looked like when it was in front last."""

    def __init__(self, tag, words):
        self.tag, self.words = tag, words
        self.extras, self.prompt = None, None


class Person:
    """`begin` starts the program; `act` does one thing, and then all must be true."""

    def __init__(self, folder, seed=0):
        self.folder, self.rng, self.pace = folder, random.Random(seed), random.Random(seed + 1)
        self.words, self.tags = Vocabulary(), 0
        self.seen = {}  # by number in the history, NEW for a chat that has not begun
        self.settings = None  # as they were on the screen when the program ended
        self.log = []
        self.came = 0  # messages of a person in the conversation that came to the front last
        self.waits = None  # the chat with a message that was sent, and waits for a model
        self.clock = 0.0
        self.begin()

    # The program

    def begin(self, asked=None):
        """Start it; `asked` is the command line's."""
        if NEW not in self.seen:
            self._new_chat()
        kept = self.seen[NEW].extras
        self.seen[NEW].extras = kept and replace(kept, interventions=None)
        self.store = SettingsStore(self.folder / "settings.json")
        assert not self.store.problems, self.store.problems
        state = restore(self.store.settings, AppState())
        self.kept = shown_settings(state)
        if self.settings is not None:
            found = {n: value for n, value in self.kept.items() if value != self.settings[n]}
            wanted = {n: self.settings[n] for n in found}
            assert not found, f"after a restart {found} instead of {wanted}"
        self.at_start = self.kept
        if asked is not None:
            state = with_asked(state, sampling=asked)
        self.asked_for = {
            f"sampling.{name}": getattr(state.sampling, name)
            for name in SamplingOptions.__struct_fields__
            if asked is not None and getattr(asked, name) != getattr(SamplingOptions(), name)
        }
        self.maps = StubMaps()
        stub = SimpleNamespace(
            maps=self.maps, ui=SimpleNamespace(maps=None, now=0.0), frame=lambda *_, **__: []
        )
        self.program = Program(state, stub)
        self.program.use("history", HistoryHost(self.folder / "history.db", lambda: None))
        self.engine = StampedEngine(self.pace, self.tag_of, self.words)
        self.there = None
        self.router = Router(self.engine)
        self.program.start(self.router)
        self.program.do(OpenModel(None))
        self.chat, self.front = self.state.chat, NEW
        self._back_as_it_was(self.seen[NEW])
        self.settle()
        self.look()

    def end(self):
        self.leave_server()
        self.settle()
        self.look()
        self.settings = self.expected_settings()
        self.store.update(self.state, WindowPlace(), self.clock, self._complain, at_once=True)
        self.program.keep()
        self.settle()
        self.program.history.end()
        assert self.program.history.finish(PATIENCE)

    def _complain(self, problem):
        raise AssertionError(problem)

    @property
    def state(self):
        return self.program.state

    def do(self, action):
        self.log.append(action)
        chat = self.state.chat
        self.program.do(action)
        if isinstance(action, chatting.Send) and self.state.queued:
            self.waits = self.state.chat
        self._note_asked()
        self.sync()
        if self.state.chat == chat:
            self._remember()

    def settle(self):
        """Until engines and the history have done all that they were asked."""
        quiet = 0
        if self.router.remote is None:  # a model was opened here
            self.there = None
        for _ in range(SETTLED):
            before = self.state
            for engine in filter(None, (self.engine, self.there)):
                engine.step()
                engine.step()
            self._wait_for_the_history()
            self.program.update()
            self.sync()
            idle = self.engine.is_idle and (self.there is None or self.there.is_idle)
            same = self.state is before or self.state == before
            quiet = quiet + 1 if idle and same and self.state.history.opening is None else 0
            if quiet >= 2:
                return
        opening, changes = self.state.history.opening, differing(before, self.state)
        raise AssertionError(f"it never came to rest: {idle=}, {opening=}, {changes}")

    def _wait_for_the_history(self):
        done = threading.Event()

        def ring():
            done.set()
            return ()

        self.program.history._submit(ring)
        assert done.wait(PATIENCE)

    # Whose is what

    def _new_chat(self):
        self.tags += 1
        self.seen[NEW] = Seen(self.tags, {self.tags})

    def tag_of(self, number):
        """Of a conversation that the engine is told of."""
        if number in self.seen:
            return self.seen[number].tag
        return self.seen[NEW].tag if number else 0

    def sync(self):
        """Which conversation is in front; what the person saw of it last must be there again."""
        state, number = self.state, self.state.history.open
        if state.chat == self.chat:
            if self.front == NEW and number is not None:  # it has begun
                self.seen[number] = self.seen.pop(NEW)
                self._new_chat()
                self.front = number
            return
        before, self.chat, self.came = self.seen[self.front], state.chat, questions(state)
        assert state.comparing is None, "answers of another conversation are compared"
        assert state.form == "auto", f"another conversation was to be written as {state.form}"
        self.front = NEW if number is None else number
        if self.front not in self.seen:  # a fork of the one that was in front
            self.tags += 1
            found = self.seen[self.front] = Seen(self.tags, {*before.words, self.tags})
            found.extras, found.prompt = replace(before.extras, draft="", files=()), before.prompt
        self._back_as_it_was(self.seen[self.front])

    def _back_as_it_was(self, seen):
        state = self.state
        if seen.extras is None:
            return
        extras = extras_of(state)
        assert extras.draft == seen.extras.draft, (
            f"the draft {extras.draft!r} is not this conversation's, {seen.extras.draft!r}"
        )
        pasted, before = (
            [(file.name, file.attached.text) for file in kept.files]
            for kept in (extras, seen.extras)
        )
        assert pasted == before, f"{pasted} goes with this draft, not {before}"
        changes = None if self.front == NEW else seen.extras.interventions
        assert extras.interventions == changes, "the interventions are not this conversation's"
        assert state.system_prompt == seen.prompt, (
            f"the system prompt {state.system_prompt!r} is not this conversation's, {seen.prompt!r}"
        )

    def look(self):
        """Everything on the screen, once all is at rest."""
        self.look_at_once()
        state, held = self.state, 0
        if state.elsewhere:
            held = len(self.there.cache) if self.there else 0
        elif state.model is not None:
            held = len(self.engine.cache)
            kept = extras_of(state).interventions
            mine = kept is not None and kept.path == state.model.path
            checks.interventions_are_told(state, kept.interventions if mine else NO_CHANGES)
            assert self.engine.interventions == state.steering.interventions, (
                f"the engine has {self.engine.interventions}, not {state.steering.interventions}"
            )
        if state.model is not None:
            engine = self.there if state.elsewhere else self.engine
            told, raw = conversation(state, state.messages), state.prompt_settings.raw
            texts = engine.texts(told, raw) if state.messages else ()
            checks.told_is_shown(state, told, self.words.texts)
            checks.read_is_shown(state, told, self.words.texts)
            checks.meter_is_in_front(state, len(texts))
            checks.cache_is_told(state, held)
            maps = [self.words.texts[number] for number in self.maps.text.tokens]
            checks.text_is_in_front(state, texts, maps)
            checks.answers_are_of_what_is_in_front(
                state, engine.served, texts, engine.executor.mode
            )
            if not state.elsewhere and state.messages:
                cached = engine.cache.texts
                checks.what_is_unread_is_told(state, texts, cached, engine.cache.rows)
        checks.setting_is_shown(state)
        self._remember()

    def _remember(self):
        """What the person sees of the conversation in front."""
        seen = self.seen[self.front]
        seen.extras, seen.prompt = extras_of(self.state), self.state.system_prompt

    def look_at_once(self):
        """What holds at any moment."""
        self.program.paint()
        state, seen = self.state, self.seen[self.front]
        engine = self.there if state.elsewhere and self.there else self.engine
        checks.state_is_in_front(state, seen.tag, seen.words, engine.served)
        shown = tuple(self.words.texts[number] for number in self.maps.text.tokens)
        checks.maps_are_in_front(shown, seen.words)
        checks.performance_is_in_front(state)
        checks.no_model_has_no_cache(state)

    # Settings

    def _note_asked(self):
        """What of the command line's the person has changed."""
        if not self.asked_for:
            return
        now = shown_settings(self.state)
        self.asked_for = {n: v for n, v in self.asked_for.items() if now[n] == v}

    def expected_settings(self):
        """What is on the screen, but for what only the command line asked for."""
        shown = shown_settings(self.state)
        return {n: self.kept[n] if n in self.asked_for else value for n, value in shown.items()}

    # What a person does

    def act(self, favour=()):
        """One thing, and now and then no wait for what follows of it; those that are to be favoured
        far more often."""
        kinds = [kind for kind, _ in DOES]
        weights = [each * (FAVOURED if kind in favour else 1) for kind, each in DOES]
        does = self.rng.choices(kinds, weights)[0]
        chat, said, begun = self.state.chat, questions(self.state), len(self.log)
        does(self)
        self.clock += 1.0
        self.store.update(self.state, WindowPlace(), self.clock, self._complain)
        self.look_at_once()
        if self.rng.random() < 0.25:
            for _ in range(self.rng.randrange(3)):
                self._wait_for_the_history()
                self.program.update()
                self.sync()
                self.look_at_once()
        else:
            self.settle()
            self.look()
        asked = any(isinstance(action, SAYING) for action in self.log[begun:])
        if self.state.chat != chat:  # what it had when it came to the front
            said = self.came
        if not asked and self.state.chat != self.waits:
            now = questions(self.state)
            assert now <= said, f"a message was sent that nobody has sent: {said} before, {now} now"

    def said(self, kind="w"):
        tag = self.seen[self.front].tag
        many = self.rng.randrange(1, 6)
        return " ".join(f"c{tag}{kind}{self.rng.randrange(1000)}" for _ in range(many))

    def index(self, role):
        found = [i for i, m in enumerate(self.state.messages) if m.role == role]
        return self.rng.choice(found) if found else None

    def others(self):
        return [number for number in self.seen if number != NEW]

    def position(self):
        return self.rng.randrange(max(1, len(self.state.owners)))

    def new(self):
        self.do(chatting.NewChat())

    def open(self):
        if numbers := self.others():
            self.do(history.OpenConversation(self.rng.choice(numbers)))

    def send(self):
        self.do(chatting.Send(self.state.draft or self.said()))

    def draft(self):
        self.do(chatting.SetDraft("" if self.rng.random() < 0.2 else self.said("d")))

    def paste(self):
        self.do(attaching.PasteText(Pasted(self.state.draft, self.said("p"), "")))

    def remove_files(self):
        self.do(attaching.RemoveFiles())

    def stop(self):
        self.do(chatting.StopAnswer())

    def edit(self):
        index = self.index(self.rng.choice(["user", "user", "assistant"]))
        if index is None:
            return
        self.do(chatting.EditMessage(index))
        ends = self.rng.choice(["send", "cancel", "leave"])
        if ends == "send" and self.state.editing is not None:
            self.do(chatting.Send(self.said()))
        elif ends == "cancel":
            self.do(chatting.CancelEdit())

    def again(self):
        self.do(chatting.Regenerate(self.index("assistant"), exactly=self.rng.random() < 0.3))

    def go_on(self):
        self.do(chatting.ContinueAnswer())

    def branch(self):
        index = self.index("assistant")
        tokens = self.state.messages[index].tokens if index is not None else ()
        if tokens:
            at = self.rng.randrange(len(tokens))
            best = tokens[at].alternatives
            choice = self.rng.choice(best) if best else None
            self.do(forking.ContinueFrom(index, at, choice))

    def switch_version(self):
        versions = [i for i in range(len(self.state.messages)) if has_versions(self.state, i)]
        if versions:
            index = self.rng.choice(versions)
            place = self.rng.randrange(len(self.state.tree.versions(index)))
            self.do(switching.SwitchVersion(index, place))

    def fork(self):
        """All that is known of the answers is known in the fork, too."""
        self.settle()
        if not self.state.messages or self.state.busy or self.state.history.open is None:
            return
        at = self.rng.randrange(len(self.state.messages))
        before, known = self.front, [m.tokens for m in self.state.messages[: at + 1]]
        self.look()
        self.do(history.ForkConversation(self.state.messages[at].id))
        self.settle()
        assert self.front != before, "the fork did not come to the front"
        found = [message.tokens for message in self.state.messages]
        same = [[t.alternatives for t in tokens] for tokens in known]
        assert [[t.alternatives for t in tokens] for tokens in found] == same, (
            f"alternatives of tokens are gone after a fork: {found}, {known}"
        )

    def delete(self):
        if numbers := self.others():
            self.do(history.DeleteConversation(self.rng.choice(numbers)))

    def undo(self):
        self.do(history.UndoHistory())

    def redo(self):
        self.do(history.RedoHistory())

    def rename(self):
        if numbers := self.others():
            self.do(history.PinConversation(self.rng.choice(numbers), self.rng.random() < 0.5))

    def prompt(self):
        text = "" if self.rng.random() < 0.4 else f"p{self.rng.random()}"
        self.do(chatting.SetSystemPrompt(text))

    def form(self):
        """Whether a conversation that has not begun is a chat or a text that goes on."""
        self.do(chatting.SetForm(self.rng.choice(["chat", "completion"])))

    def steer(self):
        self.do(steering.Steer(self.rng.choice([NO_CHANGES, ABLATED, LOUD, SHIFTED])))

    def end_one(self):
        """The button of one change in Steer."""
        changes, model = self.state.steering.interventions, self.state.model
        if changes and model is not None:
            number = self.rng.randrange(len(changes.changes))
            self.do(steering.Steer(steering.without(changes, model, number)))

    def load_interventions(self):
        """From a file, whose sites may have other names, or which the engine refuses: what was in
        force then is in force still."""
        self.settle()
        before, chat = self.state.steering.interventions, self.state.chat
        wanted = self.rng.choice([BY_ANOTHER_NAME, REPLACED])
        self.do(steering.LoadInterventions(wanted))
        self.settle()
        if self.state.chat != chat or self.state.model is None or self.state.elsewhere:
            return
        self._remember()
        now = self.state.steering.interventions
        if wanted is REPLACED:
            assert now == before, "what was refused has changed what is in force"
        else:
            assert now.changes == SHIFTED.changes, f"{now} is in force, and not what was loaded"

    def answer_steered(self):
        self.do(steering.AnswerSteered())

    def look_inside(self):
        state, at = self.state, self.position()
        self.rng.choice(
            [
                lambda: self.do(
                    looking.SetXRay(
                        replace(state.xray, shown=True, at=at, reverse=self.rng.random() < 0.5)
                    )
                ),
                lambda: self.do(SetAttention(replace(state.attention, row=at))),
                lambda: self.do(ColorCache(self.rng.choice(["key-norm", "received"]), False)),
                lambda: self.do(ShowLesson(self.rng.random() < 0.5)),
            ]
        )()

    def read_again(self):
        """Then the queries of all its tokens are there, but for those that a new mode left."""
        self.settle()
        self.do(inspecting.ReadAgain())
        if self.state.reading is None or self.state.load is not None:
            return
        self.settle()
        if not self.state.running and self.state.read_for == reading_key(self.state):
            assert self.engine.cache.rows.start == 0, "it was read again, and queries are missing"

    def look_at_views(self):
        """All views are open, and ask what they draw."""
        state, at = self.state, self.position()
        if not state.owners or not is_held(state, at) or state.model is None:
            return
        length = min(len(state.owners), state.context_used)
        by = state.cache.by if state.cache.by in ("key-norm", "received") else "key-norm"
        questions = (
            Inspect(at),
            ReadAttentionRows(at, "from", "heads", ((0, 1),)),
            ReadStates(0, 0),
            ReadRouting(0),
            MeasureCache(by, 0, length),
            ReadEffect(),
            FollowToken(at, 0, 0),
        )
        by_kind = {type(question): question for question in questions}
        for slot in checks.SLOTS:
            if slot is not ROWS and slot.question in by_kind:
                for ask in slot.wanted(self.state, by_kind[slot.question]):
                    self.do(ask)
        for ask in ask_pointed(self.state):
            self.do(ask)

    def sentence(self):
        """The lesson's own sentence, which is read without a template."""
        self.do(RunSentence(f"c{self.seen[NEW].tag}w{self.rng.randrange(1000)} word"))

    def look_and_leave(self):
        """Another chat comes to the front before the engine has told where a token looks."""
        xray = replace(self.state.xray, shown=True, at=self.position())
        self.do(looking.SetXRay(xray))
        self.look_at_views()
        self.do(chatting.NewChat())

    def sample(self):
        """Another value, or back to what it was at start or by default."""
        name = self.rng.choice(BOUNDED)
        low, high = RANGES[name]
        high = min(high, MOST_TYPED)
        default = getattr(SamplingOptions(), name)
        whole = isinstance(default, int) or name == "seed"
        other = self.rng.randint(int(low), int(high)) if whole else self.rng.uniform(low, high)
        value = self.rng.choice([other, default, self.at_start[f"sampling.{name}"]])
        self.do(chatting.SetSampling(replace(self.state.sampling, **{name: value})))

    def mode(self):
        """Now and then another one before the first is there."""
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            mode = self.rng.choice([self.at_start["options.mode"], *MODES])
            options, elsewhere = replace(self.state.options, mode=mode), self.state.elsewhere
            loads = self.state.load is not None and not self.state.load.changes
            loads = loads or self.state.model is None  # it comes after a server was left
            self.do(SetOptions(options))
            for _ in range(self.rng.randrange(1, 5)):
                if not elsewhere and not loads:
                    assert self.state.options.mode == mode, "the newer wish was not taken"
                self.program.update()
                self.sync()

    def setting(self):
        state, rng = self.state, self.rng
        self.do(
            rng.choice(
                [
                    SetOverflow(rng.choice(["stop", "rolling"])),
                    chatting.SetThinking(rng.random() < 0.5),
                    SetTheme(rng.choice(["system", "dark", "light"])),
                    SetFontSize(rng.choice([self.at_start["font_size"], 13.0, 20.0])),
                    SetSwitch(rng.choice([*SWITCHES]), rng.random() < 0.5),
                    SetLanguage(rng.choice(["en", "ko", "system"])),
                    resuming.SetResume(rng.choice(["off", "ask", "always"]), 1 << 30),
                    SetTitles(rng.random() < 0.5),
                    ColorCache(state.cache.by, state.cache.slots),
                    UseLayout(rng.choice(["read", "inspect"])),
                    ShowInspector(rng.random() < 0.5),
                    SetAttention(
                        replace(
                            state.attention,
                            colors=rng.choice(["viridis", "magma"]),
                            logarithmic=rng.random() < 0.5,
                            exclude_first=rng.random() < 0.5,
                        )
                    ),
                ]
            )
        )

    def model(self):
        self.do(OpenModel(self.rng.choice([SMALL.path, OTHER.path])))
        if self.rng.random() < 0.2:
            self.do(CancelLoading())

    def connect(self):
        if self.there is not None or self.state.busy:
            return
        self.settle()
        self.there = engine = StampedEngine(self.pace, self.tag_of, self.words)
        model = replace(SMALL, path="http://there/far", name="far")
        executor = ExecutorInfo("remote", "there", "", "", "", "", "", 0)
        engine.model = model
        engine.loaded = lambda: ModelLoaded(model, executor, 0.0)
        self.router.connect(engine)
        self.do(ServerConnected(Connection(SERVER, SERVER.models[0]), model, executor))

    def disconnect(self):
        if self.there is not None:
            self.leave_server()

    def leave_server(self):
        if self.there is None:
            return
        if self.state.running:
            self.do(chatting.StopAnswer())
        self.settle()
        self.do(Disconnect())
        self.router.disconnect()
        self.there = None

    def restart(self):
        self.end()
        asked = None
        if self.rng.random() < 0.4:
            asked = SamplingOptions(temperature=self.rng.choice([0.7, 1.3]), top_k=7)
        self.begin(asked)

    def close(self):
        self.end()


DOES = (
    (Person.new, 5),
    (Person.open, 9),
    (Person.send, 14),
    (Person.draft, 5),
    (Person.paste, 2),
    (Person.remove_files, 0.5),
    (Person.stop, 3),
    (Person.edit, 6),
    (Person.again, 4),
    (Person.go_on, 2),
    (Person.branch, 4),
    (Person.switch_version, 4),
    (Person.fork, 3),
    (Person.delete, 1.5),
    (Person.undo, 4),
    (Person.redo, 2),
    (Person.rename, 1),
    (Person.prompt, 3),
    (Person.form, 2),
    (Person.steer, 5),
    (Person.end_one, 2),
    (Person.load_interventions, 2),
    (Person.answer_steered, 2),
    (Person.look_inside, 8),
    (Person.look_at_views, 8),
    (Person.read_again, 2),
    (Person.sentence, 1),
    (Person.look_and_leave, 1),
    (Person.sample, 6),
    (Person.mode, 4),
    (Person.setting, 5),
    (Person.model, 1.5),
    (Person.connect, 1),
    (Person.disconnect, 1.5),
    (Person.restart, 1.2),
)


SAYING = (chatting.Send, RunSentence, history.UndoHistory, history.RedoHistory)


def questions(state: AppState) -> int:
    """Count what a person has said in the conversation in front, in all versions."""
    return sum(message.role in ("user", "text") for message in state.tree)


def differing(before: AppState, after: AppState) -> dict[str, object]:
    names = [n for n in after.__struct_fields__ if getattr(before, n) != getattr(after, n)]
    return {name: getattr(after, name) for name in names}


def shown_settings(state: AppState) -> dict[str, object]:
    """Every setting as it is on the screen, by name."""
    shown = {name: getattr(state, name) for name in fields_of(state, "setting")}
    for part, kind in (("sampling", SamplingOptions), ("options", EngineOptions)):
        record = shown.pop(part)
        shown |= {f"{part}.{n}": getattr(record, n) for n in kind.__struct_fields__}
    for name in LOOKS:
        record = state.xray if hasattr(state.xray, name) else state.attention
        shown[f"looks.{name}"] = getattr(record, name)
    del shown["options.draft_model"]  # of one model: it is not kept
    shown["layouts"] = (state.layouts.name, state.layouts.wants_inspector)
    shown["titles"] = state.history.titles
    shown["resume"] = state.resume.mode, state.resume.budget
    shown["serving"] = state.serving.choice
    return shown


def walk(folder, seed, steps, favour=()):
    """A person who does so many things."""
    person = Person(folder, seed)
    for step in range(steps):
        try:
            person.act(favour)
        except BaseException as error:
            last = "\n  ".join(repr(action)[:160] for action in person.log[-12:])
            error.add_note(f"step {step} of seed {seed}, after\n  {last}")
            raise
    person.close()
    return person
