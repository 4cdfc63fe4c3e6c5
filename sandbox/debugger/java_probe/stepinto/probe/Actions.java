package stepinto.probe;

import com.sun.jdi.Location;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.*;
import stepinto.probe.program.*;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.rendering.Causes;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.rendering.ValueText.Rendered;
import stepinto.probe.stops.BreakpointTable.Breakpoint;
import stepinto.probe.wire.Fields;
import stepinto.probe.wire.Limits;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/**
 * The requests that look at a stopped program or change it; places, values and stops as the fields
 * of an answer, within the launch's limits.
 */
final class Actions {
    private static final int LINE_CHARS = 200;
    private final Debugging debugging;
    private final Program program;
    private final ValueText values;
    private final Limits limits;
    /** The frames to look at; null before the first stop. */
    Stack stack;

    Actions(Debugging debugging, Limits limits) {
        this.debugging = debugging;
        this.program = debugging.program;
        this.values = debugging.values;
        this.limits = limits;
    }

    Fields handle(Request request) throws Refusal {
        debugging.invoker.until(request.deadline);
        values.begin();
        try {
            return dispatch(request);
        } catch (EvaluationFailed failed) {
            throw new Refusal(failed.timedOut ? "timeout" : "evaluation", failed.getMessage());
        }
    }

    private Fields dispatch(Request request) throws Refusal, EvaluationFailed {
        int start = Math.max(request.arguments.number("start", 0), 0);
        switch (request.action) {
            case "locals":
                Variables variables = Variables.of(frame(request));
                int total = variables.values.size();
                int first = Math.min(start, total);
                Fields locals =
                        values(variables.values.subList(first, total), first, total);
                addNotes(locals, variables.notes);
                return locals;
            case "stack":
                return stack(Math.min(start, stack.size()));
            case "threads":
                return new Fields().with("threads", threads());
            case "evaluate":
                Value value = valueOf(request);
                Rendered text = values.render(value, start);
                Named named = new Named(request.arguments.text("expression"), null, value);
                Object shown = Collections.singletonList(value(named, text));
                Fields answer = new Fields().with("values", shown);
                return text.nextStart == Rendered.END
                        ? answer : answer.with("next_start", text.nextStart);
            case "fields":
                ValueText.Page page = values.page(valueOf(request), start);
                return values(page.values, start, page.size);
            case "run_code":
                String code = request.arguments.text("code");
                debugging.evaluator.runCode(code, frame(request));
                return new Fields();
            case "set_breakpoint":
                List<String> notes = new ArrayList<>();
                Breakpoint point = debugging.table.add(request.arguments, notes);
                List<Breakpoint> points = Collections.singletonList(point);
                return new Fields()
                        .with("breakpoints", debugging.table.describe(points))
                        .with("notes", notes);
            case "remove_breakpoint":
                debugging.table.remove(request.arguments.number("number", 0));
                return new Fields();
            case "list_breakpoints":
                return new Fields();
            default:
                throw new Refusal("there is no action " + request.action);
        }
    }

    private FrameAt frame(Request request) throws Refusal {
        int index = request.arguments.number("frame", 0);
        if (stack == null || stack.isEmpty()) {
            throw new Refusal("the program has no frame to look at here");
        }
        if (index < 0 || index >= stack.size()) {
            int last = stack.size() - 1;
            throw new Refusal(
                    "there is no frame " + index + "; the stack has frames 0 to " + last);
        }
        return stack.frames.get(index);
    }

    private Value valueOf(Request request) throws Refusal, EvaluationFailed {
        String expression = request.arguments.text("expression");
        return debugging.evaluator.evaluate(expression, frame(request));
    }

    /** Every thread that is in the program's code, and where; the current one first. */
    private List<Object> threads() {
        ThreadReference current = stack == null ? debugging.mainThread : stack.thread;
        Set<ThreadReference> threads = new LinkedHashSet<>();
        threads.add(current);
        threads.addAll(debugging.diagnosis.ownThreads(debugging.mainThread));
        List<Object> shown = new ArrayList<>();
        for (ThreadReference thread : threads) {
            Stack frames = new Stack(thread, program);
            int end = Math.min(frames.size(), limits.maxFrames);
            shown.add(new Fields()
                    .with("name", thread.name())
                    .with("current", thread.equals(current))
                    .with("doing", debugging.diagnosis.doing(thread))
                    .with("frames", frames(frames, 0, end)));
        }
        return shown;
    }

    Fields stop(Runner.Stop stop) {
        boolean main = stop.thread.equals(debugging.mainThread);
        Fields fields = new Fields()
                .with("reason", stop.reason)
                .with("depth", stack.size())
                .with("thread", main ? null : stop.thread.name());
        if (!stack.isEmpty()) {
            Location place = stack.places.get(0);
            place(place, fields).with("source", context(place));
        }
        if (stop.exception != null) {
            String message = values.message(stop.exception);
            Fields exception = new Fields()
                    .with("type", stop.exception.referenceType().name())
                    .with("message", message == null ? "" : message);
            debugging.causes.putBehind(stop.exception, exception);
            if (exception.containsKey("related")) {
                debugging.notes.add(Causes.HINT);
            }
            Location shown = stack.isEmpty() ? null : stack.places.get(0);
            String before = debugging.causes.before(stop.exception, stop.raisedAt, shown);
            if (before != null) {
                debugging.notes.add(before);
            }
            fields.with("exception", exception);
        }
        if (stop.left != null) {
            Named returned = new Named(stop.left, null, stop.returned);
            fields.with("return_value", value(returned, values.render(stop.returned, 0)));
        }
        return fields;
    }

    /** A page of frames from {@code start} outwards. */
    Fields stack(int start) {
        int end = Math.min(start + limits.maxFrames, stack.size());
        Fields fields = new Fields().with("frames", frames(stack, start, end));
        if (end < stack.size()) {
            String note = (stack.size() - end) + " outer frames are not shown";
            fields.with("next_start", end).with("notes", Collections.singletonList(note));
        }
        return fields;
    }

    List<Object> frames(Stack stack, int start, int end) {
        List<Object> shown = new ArrayList<>();
        for (int index = start; index < end; index++) {
            Location place = stack.places.get(index);
            String source = program.sources.line(program.path(place), place.lineNumber());
            shown.add(place(place, new Fields().with("index", index)).with("source", source));
        }
        return shown;
    }

    private Fields place(Location place, Fields fields) {
        return fields
                .with("file", program.sources.relative(program.path(place)))
                .with("line", place.lineNumber())
                .with("function", Program.function(place));
    }

    /** As many values as the limits allow, from {@code start} on. */
    Fields values(List<Named> items, int start, int total) {
        List<Object> shown = new ArrayList<>();
        for (Named item : items.subList(0, Math.min(items.size(), limits.maxValues))) {
            shown.add(value(item, values.render(item.value, 0)));
        }
        Fields fields = new Fields().with("values", shown);
        int next = start + shown.size();
        if (next < total) {
            String note = shown.size() + " of " + total + " shown";
            fields.with("next_start", next).with("notes", Collections.singletonList(note));
        }
        return fields;
    }

    Fields value(Named item, Rendered text) {
        return new Fields()
                .with("name", item.name)
                .with("type", TypeNames.of(item.value, item.declared))
                .with("text", text.text)
                .with("truncated", text.truncated);
    }

    /** Numbered lines around a stop: {@code ->} marks the current one, {@code *} a breakpoint. */
    private List<Object> context(Location place) {
        String path = program.path(place);
        String[] lines = program.sources.lines(path);
        int current = place.lineNumber();
        List<Object> shown = new ArrayList<>();
        int first = Math.max(current - limits.contextLines, 1);
        int last = Math.min(current + limits.contextLines, lines.length);
        for (int line = first; line <= last; line++) {
            StringBuilder text = new StringBuilder(line == current ? "-> " : "   ");
            text.append(debugging.table.watches(path, line) ? "* " : "  ");
            String number = Integer.toString(line);
            text.append("     ", 0, Math.max(5 - number.length(), 0));
            text.append(number).append("  ").append(clean(lines[line - 1]));
            shown.add(text.toString());
        }
        return shown;
    }

    /** Without what a terminal would obey, bounded, and without blanks at its end. */
    private static String clean(String line) {
        StringBuilder text = new StringBuilder();
        int last = 0;
        for (int at = 0; at < Math.min(line.length(), LINE_CHARS); at++) {
            char letter = line.charAt(at);
            if (letter != '\t' && Character.isISOControl(letter)) {
                text.append(String.format("\\x%02x", (int) letter));
            } else {
                text.append(letter);
            }
            last = letter > ' ' ? text.length() : last;
        }
        text.setLength(last);
        return text.toString();
    }

    /** Put notes before those that an answer has. */
    static void addNotes(Fields answer, List<String> notes) {
        List<Object> all = new ArrayList<Object>(notes);
        Object own = answer.get("notes");
        if (own instanceof List) {
            all.addAll((List<?>) own);
        }
        answer.put("notes", all);
    }
}
