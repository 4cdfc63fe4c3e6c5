package stepinto.probe;

import com.sun.jdi.Location;
import java.util.*;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.ValueText.Rendered;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.wire.Fields;
import stepinto.probe.wire.Limits;

/** Puts places, values and stops into the fields of an answer, within the launch's limits. */
final class Describer {
    private static final int LINE_CHARS = 200;
    private final Debugging debugging;
    private final Program program;
    private final ValueText values;
    private final Limits limits;

    Describer(Debugging debugging, Limits limits) {
        this.debugging = debugging;
        this.program = debugging.program;
        this.values = debugging.values;
        this.limits = limits;
    }

    Fields stop(Stop stop, Stack stack) {
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
            fields.with("exception", new Fields()
                    .with("type", stop.exception.referenceType().name())
                    .with("message", message == null ? "" : message));
        }
        if (stop.left != null) {
            Named returned = new Named(stop.left, null, stop.returned);
            fields.with("return_value", value(returned, values.render(stop.returned)));
        }
        return fields;
    }

    /** A page of frames from {@code start} outwards. */
    Fields stack(Stack stack, int start) {
        int end = Math.min(start + limits.maxFrames, stack.size());
        Fields fields = new Fields().with("frames", frames(stack, start, end));
        if (end < stack.size()) {
            fields.put("next_start", end);
            String note = (stack.size() - end) + " outer frames are not shown";
            addNotes(fields, Collections.singletonList(note));
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
            shown.add(value(item, values.render(item.value)));
        }
        Fields fields = new Fields().with("values", shown);
        int next = start + shown.size();
        if (next < total) {
            fields.put("next_start", next);
            String note = shown.size() + " of " + total + " shown";
            addNotes(fields, Collections.singletonList(note));
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
